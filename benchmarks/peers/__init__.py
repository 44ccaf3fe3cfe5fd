"""The same model and data in other libraries' own words, each as its documentation says."""
