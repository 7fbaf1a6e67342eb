"""What follows from a result: consensus, reports on workers, predictions for new items."""
