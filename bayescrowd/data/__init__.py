"""Labels: the table, its checks, readers and data sets."""
