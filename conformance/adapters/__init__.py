"""Adapters for parsers, with the interface of ``conformance.judge.Adapter``."""
