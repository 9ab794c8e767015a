"""How good each judgement of the loop is, on files of labelled cases."""
