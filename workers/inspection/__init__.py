"""Looks into what was uploaded and scored: a run step by step, two runs side by side, the charts of a scoring.

Nothing here changes anything. It knows the scorer, which needs NumPy; whoever only serves pages asks `inspector`, which
loads it when it is asked for something."""
