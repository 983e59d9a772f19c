"""Every query of the project, by name: `runs`, `stages` and `calls` take a connection and never commit."""
