"""Models as estimators of scikit-learn."""
