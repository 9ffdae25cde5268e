"""Two targets on the same programs: where do they behave differently?"""
