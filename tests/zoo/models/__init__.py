"""The models that are not in keras.applications. Each function makes a Case."""
