"""How a robots.txt gets from its server, or from a store, to whoever needs it."""
