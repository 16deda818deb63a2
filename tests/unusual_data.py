"""scikit-learn's checks of unusual data, for models whose search is slow on all its checks."""

from sklearn.utils.estimator_checks import (
    check_estimators_empty_data_messages,
    check_fit2d_1feature,
    check_fit2d_1sample,
)

UNUSUAL = [check_estimators_empty_data_messages, check_fit2d_1feature, check_fit2d_1sample]
