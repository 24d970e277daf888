"""Tables, figures and notes that the reports of all studies use."""
