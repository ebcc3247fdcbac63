"""Reports on ledgers, each one HTML file that loads no other files."""
