"""Usage preferences: what a site allows crawlers to use fetched content for."""
