"""The door to xarray: from a run to one DataTree, its storage, and label switching."""
