"""Few colours: safe for every kind of colour blindness, told apart in grey, fine on white and on dark."""

__all__ = ["ACCENT", "FAINT", "MAIN", "MUTED", "SECOND"]

MAIN = "#2a6f97"
"""Blue, for what is as it should be."""
ACCENT = "#d55e00"
"""Vermilion, for what one should look at. Apart from the blue in every kind of colour blindness, and in grey."""
SECOND = "#8a1c5c"
"""Wine, for the second kind of trouble; always with a marker of its own."""
MUTED = "#6b7280"
FAINT = "#d9dde3"
