"""The five signals, one a file (AGENTLENS §5). None of them can see how a run ended."""
