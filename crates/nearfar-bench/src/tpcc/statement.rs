//! The statements of the transactions.

/// A statement that is prepared once for each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statement {
    /// The tax of a warehouse.
    WarehouseTax,
    /// Takes the number of the next order of a district.
    NextOrder,
    /// The tax of a district, and the number of its next order.
    District,
    /// What an order has to know of a customer.
    CustomerTerms,
    /// Adds an order.
    InsertOrder,
    /// Adds an order that is not delivered.
    InsertNewOrder,
    /// Adds a line of an order.
    InsertLine,
    /// An item.
    Item,
    /// Takes from a stock.
    TakeStock,
    /// A stock, as a district has it.
    Stock(u8),
    /// A customer's number by name, in the order of first names.
    CustomersByName,
    /// A customer.
    Customer,
    /// A customer's texts.
    CustomerData,
    /// A customer pays.
    PayCustomer,
    /// A customer with bad credit pays.
    PayCustomerBad,
    /// A warehouse is paid.
    PayWarehouse,
    /// The address of a warehouse.
    Warehouse,
    /// A district is paid.
    PayDistrict,
    /// The address of a district.
    DistrictAddress,
    /// Adds a payment.
    InsertHistory,
    /// The last order of a customer.
    LastOrder,
    /// The lines of an order.
    Lines,
    /// The oldest order of a district that is not delivered.
    OldestNewOrder,
    /// It is no longer so.
    DeleteNewOrder,
    /// Who has ordered.
    OrderCustomer,
    /// An order has a carrier.
    CarryOrder,
    /// The lines of an order are delivered.
    DeliverLines,
    /// What the lines of an order cost.
    OrderAmount,
    /// A customer is to pay what was delivered.
    ChargeCustomer,
    /// Items of the last orders of which few are left.
    StockLevel,
}

/// The same, but for the district's column, as each district has it.
const STOCKS: [&str; 10] = [
    "SELECT s_quantity, s_data, s_dist_01 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_02 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_03 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_04 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_05 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_06 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_07 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_08 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_09 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    "SELECT s_quantity, s_data, s_dist_10 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
];

impl Statement {
    /// Its text, with parameters `$1` and so on.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub const fn text(self) -> &'static str {
        match self {
            Self::WarehouseTax => "SELECT w_tax FROM warehouse WHERE w_id = $1",
            Self::District => {
                "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2"
            }
            Self::CustomerTerms => {
                "SELECT c_discount, c_last, c_credit FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Self::Item => "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
            Self::Stock(district) => STOCKS[district as usize - 1],
            Self::CustomersByName => {
                "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
                 ORDER BY c_first"
            }
            Self::Customer => {
                "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
                 c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance \
                 FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Self::CustomerData => {
                "SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Self::Warehouse => {
                "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip \
                 FROM warehouse WHERE w_id = $1"
            }
            Self::DistrictAddress => {
                "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip \
                 FROM district WHERE d_w_id = $1 AND d_id = $2"
            }
            Self::LastOrder => {
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1"
            }
            Self::Lines => {
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
                 FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            Self::OldestNewOrder => {
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
                 ORDER BY no_o_id LIMIT 1"
            }
            Self::OrderCustomer => {
                "SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3"
            }
            Self::OrderAmount => {
                "SELECT sum(ol_amount) FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            Self::StockLevel => {
                "SELECT count(DISTINCT s_i_id) FROM order_line \
                 JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 \
                 AND s_w_id = $1 AND s_quantity < $5"
            }
            Self::NextOrder => {
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2"
            }
            Self::InsertOrder => "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)",
            Self::InsertNewOrder => "INSERT INTO new_order VALUES ($1, $2, $3)",
            Self::InsertLine => {
                "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)"
            }
            Self::TakeStock => {
                "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $1 + 10 \
                 THEN s_quantity - $1 ELSE s_quantity - $1 + 91 END, s_ytd = s_ytd + $1, \
                 s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $2 \
                 WHERE s_w_id = $3 AND s_i_id = $4"
            }
            Self::PayCustomer => {
                "UPDATE customer SET c_balance = c_balance - $1, \
                 c_ytd_payment = c_ytd_payment + $1, c_payment_cnt = c_payment_cnt + 1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4"
            }
            Self::PayCustomerBad => {
                "UPDATE customer SET c_data = $1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4"
            }
            Self::PayWarehouse => "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2",
            Self::PayDistrict => {
                "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3"
            }
            Self::InsertHistory => "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            Self::DeleteNewOrder => {
                "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3"
            }
            Self::CarryOrder => {
                "UPDATE orders SET o_carrier_id = $1 \
                 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4"
            }
            Self::DeliverLines => {
                "UPDATE order_line SET ol_delivery_d = $1 \
                 WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4"
            }
            Self::ChargeCustomer => {
                "UPDATE customer SET c_balance = c_balance + $1, \
                 c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4"
            }
        }
    }
}
