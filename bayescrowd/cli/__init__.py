"""The command line, the only room that prints. Starting it imports neither JAX nor pandas."""

from bayescrowd.cli.app import main

__all__ = ["main"]
