"""`lessons doctor`: what is wrong with the loop's parts, and what helps."""
