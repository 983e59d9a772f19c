"""The built-in teams and their prompts, shipped as package data."""
