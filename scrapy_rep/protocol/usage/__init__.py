"""Usage preferences: what a site allows its content to be used for, after it was fetched."""
