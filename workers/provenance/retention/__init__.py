"""What goes after a while: bodies of payloads, readings and uploads. Runs, verdicts, ledgers and scores stay."""
