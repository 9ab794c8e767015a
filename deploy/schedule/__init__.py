"""`lessons schedule`: the gate at its times, by a timer or in the foreground."""
