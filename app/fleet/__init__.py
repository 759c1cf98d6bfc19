"""The fleet between lab and warehouse: what is asked, run, stored, read back and printed."""
