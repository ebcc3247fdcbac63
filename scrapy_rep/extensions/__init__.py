"""Extensions that keep a crawl polite, and on record."""
