"""The mathematics of naive Bayes: pure, exact, independent of mail."""
