//! The nine tables (clause 1.3).
//!
//! Texts have no declared lengths, which clause 1.3.1 allows: a column must be able to hold what is asked for.

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// What can be ordered.
    Item,
    /// Warehouses.
    Warehouse,
    /// Ten districts of each warehouse.
    District,
    /// Customers of each district.
    Customer,
    /// Payments.
    History,
    /// Orders.
    Orders,
    /// Orders that are not delivered.
    NewOrder,
    /// Lines of orders.
    OrderLine,
    /// How much there is of each item in each warehouse.
    Stock,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Item,
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::History,
        Self::Orders,
        Self::NewOrder,
        Self::OrderLine,
        Self::Stock,
    ];

    /// Its name in SQL. `ORDER` is a word of SQL itself.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::Orders => "orders",
            Self::NewOrder => "new_order",
            Self::OrderLine => "order_line",
            Self::Stock => "stock",
        }
    }

    /// Its columns and its key.
    const fn columns(self) -> &'static str {
        match self {
            Self::Item => {
                "i_id INTEGER NOT NULL, i_im_id INTEGER, i_name VARCHAR, i_price NUMERIC(5,2), \
                 i_data VARCHAR, PRIMARY KEY (i_id)"
            }
            Self::Warehouse => {
                "w_id INTEGER NOT NULL, w_name VARCHAR, w_street_1 VARCHAR, w_street_2 VARCHAR, \
                 w_city VARCHAR, w_state VARCHAR, w_zip VARCHAR, w_tax NUMERIC(4,4), \
                 w_ytd NUMERIC(12,2), PRIMARY KEY (w_id)"
            }
            Self::District => {
                "d_w_id INTEGER NOT NULL, d_id INTEGER NOT NULL, d_name VARCHAR, \
                 d_street_1 VARCHAR, d_street_2 VARCHAR, d_city VARCHAR, d_state VARCHAR, \
                 d_zip VARCHAR, d_tax NUMERIC(4,4), d_ytd NUMERIC(12,2), d_next_o_id INTEGER, \
                 PRIMARY KEY (d_w_id, d_id)"
            }
            Self::Customer => {
                "c_w_id INTEGER NOT NULL, c_d_id INTEGER NOT NULL, c_id INTEGER NOT NULL, \
                 c_first VARCHAR, c_middle VARCHAR, c_last VARCHAR, c_street_1 VARCHAR, \
                 c_street_2 VARCHAR, c_city VARCHAR, c_state VARCHAR, c_zip VARCHAR, \
                 c_phone VARCHAR, c_since TIMESTAMP, c_credit VARCHAR, \
                 c_credit_lim NUMERIC(12,2), c_discount NUMERIC(4,4), c_balance NUMERIC(12,2), \
                 c_ytd_payment NUMERIC(12,2), c_payment_cnt INTEGER, c_delivery_cnt INTEGER, \
                 c_data VARCHAR, PRIMARY KEY (c_w_id, c_d_id, c_id)"
            }
            Self::History => {
                "h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER, \
                 h_w_id INTEGER, h_date TIMESTAMP, h_amount NUMERIC(6,2), h_data VARCHAR"
            }
            Self::Orders => {
                "o_w_id INTEGER NOT NULL, o_d_id INTEGER NOT NULL, o_id INTEGER NOT NULL, \
                 o_c_id INTEGER, o_entry_d TIMESTAMP, o_carrier_id INTEGER, o_ol_cnt INTEGER, \
                 o_all_local INTEGER, PRIMARY KEY (o_w_id, o_d_id, o_id)"
            }
            Self::NewOrder => {
                "no_w_id INTEGER NOT NULL, no_d_id INTEGER NOT NULL, no_o_id INTEGER NOT NULL, \
                 PRIMARY KEY (no_w_id, no_d_id, no_o_id)"
            }
            Self::OrderLine => {
                "ol_w_id INTEGER NOT NULL, ol_d_id INTEGER NOT NULL, ol_o_id INTEGER NOT NULL, \
                 ol_number INTEGER NOT NULL, ol_i_id INTEGER, ol_supply_w_id INTEGER, \
                 ol_delivery_d TIMESTAMP, ol_quantity INTEGER, ol_amount NUMERIC(6,2), \
                 ol_dist_info VARCHAR, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"
            }
            Self::Stock => {
                "s_w_id INTEGER NOT NULL, s_i_id INTEGER NOT NULL, s_quantity INTEGER, \
                 s_dist_01 VARCHAR, s_dist_02 VARCHAR, s_dist_03 VARCHAR, s_dist_04 VARCHAR, \
                 s_dist_05 VARCHAR, s_dist_06 VARCHAR, s_dist_07 VARCHAR, s_dist_08 VARCHAR, \
                 s_dist_09 VARCHAR, s_dist_10 VARCHAR, s_ytd INTEGER, s_order_cnt INTEGER, \
                 s_remote_cnt INTEGER, s_data VARCHAR, PRIMARY KEY (s_w_id, s_i_id)"
            }
        }
    }

    /// The statement that makes it.
    pub fn create(self) -> String {
        format!("CREATE TABLE {} ({})", self.name(), self.columns())
    }
}

/// Indexes beside the keys: customers by their names, and the last order of a customer.
pub const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];
