"""Routing policies of the replay lab; one module per family, `registry` names them all."""
