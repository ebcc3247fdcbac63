"""Fuzz targets, which test functions of the package with any bytes. README.md says how to run them."""
