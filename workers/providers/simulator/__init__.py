"""The simulated provider: a model server that knows a few example specs and nothing else.

It stands in where no provider has a key. It sees only the HTTP requests it gets, and every body, chunk and
event that it sends carries `"simulated": true`, so that nobody can take its word for a model's.

`server.serve` runs it, `app.create_app` is the application, `problems/` what it knows (see its README)."""
