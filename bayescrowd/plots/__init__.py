"""Pictures of a result, by the conventions of ArviZ; needs the extra ``plots``."""
