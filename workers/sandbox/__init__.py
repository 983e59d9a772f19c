"""The cage: generated code runs in a Docker container that can do nothing but compute, or it does not run."""
