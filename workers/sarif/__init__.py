"""SARIF 2.1.0: alarms of other tools in, results of ours out. Pure: files are read and written by the callers."""
