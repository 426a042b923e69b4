/(?P<host>[a-z]\d[a-z]*)\.(?P<setting>\w*large)_\d{8}_
