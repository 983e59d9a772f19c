"""What goes wrong on purpose, so that what copes with it can be rehearsed: see docs/simulator.md.

`kind` is the table of kinds and their parameters, `rule` decides which request gets which, `script` reads them
from a file, `refusal`, `content` and `delivery` do them."""
