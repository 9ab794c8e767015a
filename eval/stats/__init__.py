"""Does one arm beat another: lift, intervals, exact tests, verdicts."""
