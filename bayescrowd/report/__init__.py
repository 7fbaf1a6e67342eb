"""One self-contained page about a result, for people without Python."""
