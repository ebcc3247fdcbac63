"""Adapters for parsers; ``conformance.judge.Adapter`` is their interface."""
