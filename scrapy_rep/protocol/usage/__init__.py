"""Usage preferences: the uses of fetched content that a site allows or disallows."""
