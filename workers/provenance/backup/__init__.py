"""The whole database as one file, and back."""
