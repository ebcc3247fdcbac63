"""Fuzz targets: functions of bytes that hold for any input. README.md says how to run them."""
