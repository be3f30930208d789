"""The suites: which works there are, of which sizes, and their inputs."""
