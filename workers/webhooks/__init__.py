"""Telling somebody's URL that a run or a batch has ended: signed, repeated until it arrives, and never into a closed
network (`docs/webhooks.md`)."""
