"""Faithfulness metrics: score normalisation, calibration, masks, distances, Soft-NC and Soft-NS."""
