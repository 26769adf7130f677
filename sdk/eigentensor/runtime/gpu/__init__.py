"""Devices with work items: grids, their text, OpenCL and CUDA, and the launches that run the code."""
