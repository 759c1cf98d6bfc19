"""Read models: what a page shows, as plain functions from the warehouse to frames and dataclasses.

No streamlit here: pages cache these reads, tests and the command line call them as they are.
"""
