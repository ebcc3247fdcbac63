"""Reports on ledgers: one HTML file each, which loads nothing."""
