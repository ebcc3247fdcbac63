"""A ledger as a page to read: one HTML file that needs nothing else."""
