"""A finished TFLite file as the model to export: cleaned, repaired, exchanged, quantised, without its source."""
