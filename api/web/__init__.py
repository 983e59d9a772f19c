"""The pages: rendered on the server with what is known, kept up to date by small modules of JavaScript over `/v1`."""
