"""Moment estimators: confusion matrices and prevalence from what pairs of workers say of the same items."""
