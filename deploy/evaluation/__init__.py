"""`lessons eval run`, `demo` and `collapse`, in the harness or in an Open WebUI."""
